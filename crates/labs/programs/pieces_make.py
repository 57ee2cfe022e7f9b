import os,sys
r=sys.argv[1]
n=0
try:
    while True:
        open(f'{r}/s{n}','w').write('x'*16000);n+=1
except OSError: pass
