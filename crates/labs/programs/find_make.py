# Given by the lab: files, folders.
import os,sys
for i in range(files):
    d=f'{sys.argv[1]}/{i%folders}'
    os.makedirs(d,exist_ok=True)
    open(f'{d}/{i}','w').close()
