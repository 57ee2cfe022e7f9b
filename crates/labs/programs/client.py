import socket,sys
port,tables,columns=map(int,sys.argv[1:4])
row=[(f't{t} '+','.join(f'c{c}={c}i' for c in range(columns))+'\n').encode() for t in range(tables)]
to=[socket.create_connection(('127.0.0.1',port)) for _ in row]
def send(n):
    for s,r in zip(to,row): s.sendall(r*n)
for _ in range(128): send(64)
open(sys.argv[4],'w').close()
while True: send(1)
