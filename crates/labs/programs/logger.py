# Given by the lab: log, bytes, lines.
import os,sys
os.makedirs(sys.argv[1]+'/var/log')
f=os.open(sys.argv[1]+f'/{log}',os.O_CREAT|os.O_WRONLY|os.O_APPEND,0o644)
n=0
while True:
    n+=1
    os.write(f,b'%010d DEBUG '%n+b'l'*bytes+b'\n')
    if n%lines==0: os.fdatasync(f)
