# Given by the lab: files.
import os,sys
d=sys.argv[1]+'/'+str(os.getpid())
for i in range(60): os.makedirs(f'{d}/{i}')
n=0
while True:
    n+=1
    i=n%files
    a=f'{d}/{i*7%60}/{i}'
    if not os.path.exists(a): open(a,'w').close()
    os.chmod(a,0o600+n%64)
    b=f'{d}/{i*11%60}/t{i}'
    os.rename(a,b)
    os.rename(b,a)
