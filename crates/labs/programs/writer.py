import os, sys
fd = os.open(sys.argv[1] + '/bulk', os.O_CREAT | os.O_WRONLY)
block = b'x' * 65536
while True:
    os.lseek(fd, 0, 0)
    for _ in range(1600):
        os.write(fd, block)
