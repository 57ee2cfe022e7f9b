import os,sys
for i in range(24000):
    d=f'{sys.argv[1]}/d{i%200}'
    os.makedirs(d,exist_ok=True)
    open(f'{d}/f{i}','w').close()
