# Given by the lab: chunk, pause.
import os,sys,time,random
fd=os.open(sys.argv[1],os.O_WRONLY)
while True:
    for _ in range(chunk): os.pwrite(fd,b'x'*4096,random.randrange(25000)*4096)
    os.fdatasync(fd)
    time.sleep(pause)
