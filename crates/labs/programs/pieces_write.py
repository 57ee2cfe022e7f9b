import os,sys
fd=os.open(sys.argv[1]+'/table',os.O_CREAT|os.O_WRONLY)
for _ in range(56): os.write(fd,b'x'*1048576)
os.fsync(fd)
