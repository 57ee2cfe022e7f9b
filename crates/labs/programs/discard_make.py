import sys
for i in range(18000): open(f'{sys.argv[1]}/t{i}','w').write('x'*(40000 if i%2 else 4000))
