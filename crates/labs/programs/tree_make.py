# Given by the lab: files, bytes.
import os,sys
r=sys.argv[1]
for i in range(files):
    d=f'{r}/d{i%200}'
    os.makedirs(d,exist_ok=True)
    open(f'{d}/f{i}','w').write('x'*bytes)
