import java.nio.*; import java.nio.channels.*; import java.nio.file.*;
import java.util.concurrent.locks.*;
public class Orders {
  static final Object LOCK = new Object();
  static long written, forced;
  public static void main(String[] a) throws Exception {
    FileChannel file = FileChannel.open(Path.of(a[0]), StandardOpenOption.CREATE,
        StandardOpenOption.WRITE);
    boolean inLock = a[1].equals("lock");
    if (!inLock) {
      Thread flusher = new Thread(() -> flush(file), "flusher");
      flusher.setDaemon(true);
      flusher.start();
    }
    for (int i = 0; i < 12; i++) {
      new Thread(() -> store(file, inLock), "order-" + i).start();
    }
  }
  static void flush(FileChannel file) {
    try {
      while (true) {
        long upTo;
        synchronized (LOCK) { upTo = written; }
        if (upTo == forced) { Thread.sleep(1); continue; }
        file.force(false);
        synchronized (LOCK) { forced = upTo; LOCK.notifyAll(); }
      }
    } catch (Exception e) { throw new RuntimeException(e); }
  }
  static void store(FileChannel file, boolean inLock) {
    try {
      ByteBuffer row = ByteBuffer.allocate(200);
      while (true) {
        row.clear();
        synchronized (LOCK) {
          file.write(row, (written * 200) % (64 << 20));
          long mine = ++written;
          if (inLock) file.force(false);
          else while (forced < mine) LOCK.wait();
        }
        Thread.sleep(5);
      }
    } catch (Exception e) { throw new RuntimeException(e); }
  }
}
