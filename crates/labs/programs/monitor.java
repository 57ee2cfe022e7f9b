import java.io.IOException;
import java.nio.file.*;
import java.nio.file.attribute.*;
public class DiskUsageMonitor {
    static long walk(Path folder) throws IOException {
        long sum = 0;
        try (DirectoryStream<Path> entries = Files.newDirectoryStream(folder)) {
            for (Path entry : entries) {
                BasicFileAttributes it = Files.readAttributes(
                    entry, BasicFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
                sum += it.isDirectory() ? walk(entry) : it.size();
            }
        }
        return sum;
    }
    public static void main(String[] arguments) throws Exception {
        for (int warm = 0; warm < 2000; warm++) walk(Path.of(arguments[1]));
        System.out.println("warm");
        System.in.read();
        while (true) walk(Path.of(arguments[0]));
    }
}
