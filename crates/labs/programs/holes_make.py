# Given by the lab: size, large.
import os,sys
d=sys.argv[1]
top=os.open(d,os.O_RDONLY)
n=0
try:
    while True:
        os.makedirs(f'{d}/{n//1000}',exist_ok=True)
        with open(f'{d}/{n//1000}/{n}','wb') as f: f.write(b'z'*size)
        n+=1
        if n%2000==0: os.fsync(top)
except OSError: pass
for i in range(0,n,2):
    try: os.unlink(f'{d}/{i//1000}/{i}')
    except OSError: pass
os.fsync(top)
with open(d+f'/{large}','wb') as f:
    for _ in range(160): f.write(b'w'*(1<<20))
    f.flush()
    os.fsync(f.fileno())
