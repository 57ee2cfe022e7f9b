import os,sys
r=sys.argv[1]+'/'+sys.argv[2]
os.makedirs(r)
n=0
while True:
    n+=1
    d=f'{r}/d{n}'
    os.mkdir(d)
    for i in range(20): open(f'{d}/f{i}','w').close()
    if n>200:
        o=f'{r}/d{n-200}'
        for i in range(20): os.unlink(f'{o}/f{i}')
        os.rmdir(o)
