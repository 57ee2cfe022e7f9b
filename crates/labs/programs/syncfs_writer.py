import os,sys,time,random
fd=os.open(sys.argv[1]+'/data',os.O_CREAT|os.O_RDWR)
os.ftruncate(fd,50<<20)
while True:
    for _ in range(20): os.pwrite(fd,b'x'*4096,random.randrange(12000)*4096)
    open(sys.argv[1]+'/f%d'%random.randrange(500),'w').write('x')
    time.sleep(0.05)
