import os,sys,time
fd=os.open(sys.argv[1]+'/wal',os.O_CREAT|os.O_RDWR)
os.posix_fallocate(fd,0,64<<20)
os.fsync(fd)
at=0
while True:
    for _ in range(200):
        os.pwrite(fd,b'x'*700,at)
        at=(at+700)%(60<<20)
    os.fdatasync(fd)
    time.sleep(0.2)
