# Given by the lab: files.
import os,sys
d=sys.argv[1]+'/cache'
os.makedirs(d,exist_ok=True)
n=0
while True:
    n+=1
    names=[f'{d}/{n}-{i}' for i in range(files)]
    for name in names:
        f=os.open(name,os.O_CREAT|os.O_WRONLY)
        os.posix_fallocate(f,0,131072)
        os.close(f)
    for name in names[::2]: os.unlink(name)
    f=os.open(d,os.O_RDONLY); os.fsync(f)
    for name in names[1::2]: os.unlink(name)
    os.fsync(f); os.close(f)
