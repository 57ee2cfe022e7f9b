# Given by the lab: file, bytes.
import sqlite3,sys
d=sqlite3.connect(sys.argv[1]+f'/{file}.db',isolation_level=None)
d.execute('create table t(i integer primary key,x text)')
while True: d.execute('insert into t(x) values(?)',('s'*bytes,))
