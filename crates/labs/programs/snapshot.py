import os,sys,time
fd=os.open(sys.argv[1],os.O_WRONLY)
while True:
    os.lseek(fd,0,0)
    for _ in range(200): os.write(fd,b'x'*16384)
    os.fsync(fd)
    time.sleep(1)
