# Given by the lab: files.
import sys
for i in range(files): open(f'{sys.argv[1]}/column{i}.d','wb').write(b'x'*1048576)
