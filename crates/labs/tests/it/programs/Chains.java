// Threads that wait for one that writes. usage: Chains FILE SECONDS

import com.sun.nio.file.ExtendedOpenOption;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

public final class Chains {
    private static final int WORKERS = 5;
    private static final int PAGE = 4096;
    private static final Object LOCK = new Object();
    private static FileChannel file;
    private static ByteBuffer page;
    private static long end;

    private static void writeSnapshot() throws IOException {
        synchronized (LOCK) {
            page.clear();
            file.write(page, 0);
        }
    }

    private static int answerRequest() {
        synchronized (LOCK) {
            return page.capacity();
        }
    }

    private static void loop(boolean writes) {
        try {
            while (System.nanoTime() < end) {
                if (writes) {
                    writeSnapshot();
                } else {
                    answerRequest();
                }
                Thread.sleep(2);
            }
        } catch (IOException | InterruptedException cause) {
            throw new IllegalStateException(cause);
        }
    }

    public static void main(String[] arguments) throws Exception {
        file = FileChannel.open(Path.of(arguments[0]), StandardOpenOption.WRITE,
            ExtendedOpenOption.DIRECT);
        page = ByteBuffer.allocateDirect(2 * PAGE).alignedSlice(PAGE).limit(PAGE).slice();
        end = System.nanoTime() + Long.parseLong(arguments[1]) * 1_000_000_000L;
        new Thread(() -> loop(true), "snapshot-writer").start();
        for (int index = 0; index < WORKERS; index++) {
            new Thread(() -> loop(false), "worker-" + index).start();
        }
    }
}
