# Given by the lab: keep, files, bytes, port.
import os,sys,uuid,shutil
from flask import Flask
app=Flask('words')
n=0
@app.route('/popularity/<word>')
def popularity(word):
    global n
    n+=1
    d=f'{sys.argv[1]}/{uuid.uuid4() if keep==0 else 0}'
    os.makedirs(d,exist_ok=True)
    for i in range(files): open(f'{d}/{i}.txt','w').write('x'*bytes)
    t=0
    for i in range(files): t+=len(open(f'{d}/{i}.txt').read())
    if keep==0: shutil.rmtree(d)
    return str(t)
app.run(port=port)
