import os,sys,time,ctypes
l=ctypes.CDLL(None)
n=0
while True:
    n+=1
    d=f'{sys.argv[1]}/package{n}'
    os.mkdir(d)
    for i in range(120): open(f'{d}/file{i}','wb').write(b'x'*9000)
    fd=os.open(d,os.O_RDONLY)
    l.syncfs(fd)
    os.close(fd)
    time.sleep(1.5)
