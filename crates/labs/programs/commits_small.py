import os,sys,time
fd=os.open(sys.argv[1]+'/small',os.O_CREAT|os.O_WRONLY)
while True:
    os.write(fd,b'x'*100)
    os.fsync(fd)
    time.sleep(0.1)
