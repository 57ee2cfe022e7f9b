public class Garbage {
  static volatile byte[] last;
  public static void main(String[] a) throws Exception {
    for (int i = 0; ; i++) { last = new byte[2000]; if (i % 2000 == 0) Thread.sleep(1); }
  }
}
