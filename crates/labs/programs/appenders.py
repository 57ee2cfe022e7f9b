# Given by the lab: block, file.
import mmap,os,sys
m=mmap.mmap(-1,block)
m.write(b'y'*block)
f=os.open(sys.argv[1]+f'/{file}',os.O_CREAT|os.O_WRONLY|os.O_APPEND|os.O_DIRECT,0o644)
while True: os.write(f,m)
