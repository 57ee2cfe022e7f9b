import sys,os,hashlib
d=sys.argv[1]
n=0
while True:
    n+=1
    src=f'{d}/src{n%500}.c'
    if not os.path.exists(src): open(src,'w').write('int x;'*2000)
    text=open(src).read()
    for _ in range(40): hashlib.sha256(text.encode()*4).digest()
    open(f'{d}/src{n%500}.o','w').write(text)
