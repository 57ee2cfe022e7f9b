import sys, sqlite3, os
path, mode, synchronous, file = sys.argv[1:5]
db = sqlite3.connect(path, isolation_level=None)
db.execute('pragma journal_mode=' + mode)
db.execute('pragma synchronous=' + synchronous)
db.execute('create table if not exists t(a integer primary key, b text)')
at, n = os.open(file, os.O_CREAT | os.O_WRONLY), 0
while True:
    db.execute('insert into t(b) values(?)', ('x' * 100,))
    n += 1
    os.pwrite(at, b'%20d' % n, 0)
