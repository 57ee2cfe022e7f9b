# Given by the lab: name, lines.
import os,sys,time
os.makedirs(sys.argv[1])
f=open(sys.argv[1]+f'/{name}','a')
n=0
while True:
    n+=1
    f.write('DEBUG request %d took 3 ms and everything is fine so far\n'%n*8)
    if n%lines==0:
        f.flush();os.fsync(f.fileno())
    if lines>1: time.sleep(0.003)
