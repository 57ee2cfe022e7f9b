# Given by the lab: bytes.
import os,sys,random
fd=os.open(sys.argv[1],os.O_WRONLY|os.O_DSYNC)
while True: os.pwrite(fd,b'x'*bytes,random.randrange(76000)*4096)
