# Given by the lab: files.
import os,sys
for i in range(files):
    d=f'{sys.argv[1]}/{i%80}'
    os.makedirs(d,exist_ok=True)
    open(f'{d}/{i}','w').write('mail')
