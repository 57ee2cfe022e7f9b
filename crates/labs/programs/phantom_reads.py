# Given by the lab: files.
import mmap,sys,random
fs=[open(f'{sys.argv[1]}/column{i}.d','r+b') for i in range(files)]
ms=[mmap.mmap(f.fileno(),0) for f in fs]
while True:
    for m in ms:
        for _ in range(6):
            o=random.randrange(len(m)-8)
            m[o:o+8]=b'12345678'
        m.flush()
