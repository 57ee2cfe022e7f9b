import java.lang.management.*; import java.nio.file.*; import java.util.*;
public class Dump {
  public static void main(String[] a) throws Exception {
    List<byte[]> kept = new ArrayList<>();
    for (int i = 0; i < 3000; i++) kept.add(new byte[100_000]);
    var bean = ManagementFactory.newPlatformMXBeanProxy(ManagementFactory.getPlatformMBeanServer(),
        "com.sun.management:type=HotSpotDiagnostic",
        com.sun.management.HotSpotDiagnosticMXBean.class);
    for (int n = 0; ; n++) {
      Path file = Path.of(a[0], "heap.hprof");
      Files.deleteIfExists(file);
      bean.dumpHeap(file.toString(), true);
      if (kept.size() == n) System.out.println(n);
    }
  }
}
