# Given by the lab: files.
import mmap,random,sys
maps=[]
for i in range(files):
    f=open(f'{sys.argv[1]}/column{i}.d','rb')
    maps.append(mmap.mmap(f.fileno(),0,prot=mmap.PROT_READ))
t=0
while True:
    m=random.choice(maps)
    t+=m[random.randrange(len(m))]
