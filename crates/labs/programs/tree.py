import os, sys
root, files = sys.argv[1], int(sys.argv[2])
for n in range(files):
    folder = f'{root}/d{n % 600}/e{n % 7}'
    if n < 4200: os.makedirs(folder, exist_ok=True)
    with open(f'{folder}/f{n}.c', 'w') as file: file.write('int x%d;\n' % n)
