import os,sys,time
r=sys.argv[1]
for i in range(3000):
    d=f'{r}/d{i%50}'
    os.makedirs(d,exist_ok=True)
    open(f'{d}/f{i}','w').write('x'*2000)
while True:
    for d,_,fs in os.walk(r):
        for f in fs: os.lstat(os.path.join(d,f))
    time.sleep(0.5)
