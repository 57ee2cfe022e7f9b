import os,sys,time
n=0
while True:
    n+=1
    p=f'{sys.argv[1]}/bulk{n%3}'
    f=open(p,'wb')
    for _ in range(30): f.write(b'x'*1048576)
    f.close()
    time.sleep(0.3)
