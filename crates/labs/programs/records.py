# Given by the lab: file, bytes.
import os,random,sys
f=os.open(sys.argv[1]+f'/{file}',os.O_WRONLY)
while True: os.pwrite(f,b'r'*bytes,random.randrange(300<<20>>12<<12)//bytes*bytes)
