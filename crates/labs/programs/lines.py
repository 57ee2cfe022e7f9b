import socket, sys, time
to = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
to.connect(sys.argv[1])
n = 0
while True:
    to.send(b'<14>app: request %d was answered' % n)
    n += 1
    time.sleep(1 / int(sys.argv[2]))
