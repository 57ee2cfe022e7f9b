import sys
for i in range(6000): open(f'{sys.argv[1]}/f{i}','w').write('x'*3000)
