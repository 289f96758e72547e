import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;

import org.apache.kafka.common.utils.Exit;

import static java.nio.charset.StandardCharsets.UTF_8;

/**
 * Runs Kafka's tools one after the other in one JVM, as often as it is asked on its standard input.
 *
 * A request is the number of its strings (int), then each string (int length, UTF-8): the main class, the tool's
 * standard input, its arguments. The answer is the exit code (int), standard output and standard error, and how many
 * threads the tool left behind that would have kept a process alive (int), and that would not (int). It ends with its
 * standard input.
 *
 * A tool behaves as in a process of its own. Its first exit counts and nothing that it prints behind it; its shutdown
 * hooks run at the exit; where it returns from main, its threads that are no daemons come to their end before. What
 * Kafka's class Exit does not see are System.exit and Runtime.addShutdownHook: System.exit ends this JVM as well, which
 * answers before with UNKNOWN for a code (it is that of this process); a tool with such a hook cannot run here. Classes
 * are loaded once, so what they count goes on: the admin clients are adminclient-1, adminclient-2 and so on.
 */
public final class ToolServer {
    private static final int UNKNOWN = Integer.MIN_VALUE;
    private static final long CLEANING_MS = 10_000;
    private static final InheritableThreadLocal<Request> OWNER = new InheritableThreadLocal<>();
    private static volatile Request current;

    /** Unwinds a tool that exits. */
    private static final class Left extends Error {
        Left() {
            super("exit", null, false, false);
        }
    }

    private static final class Request {
        final ThreadGroup group = new ThreadGroup("tool");
        final ByteArrayOutputStream out = new ByteArrayOutputStream();
        final ByteArrayOutputStream err = new ByteArrayOutputStream();
        final InputStream in;
        final List<Runnable> hooks = new ArrayList<>();
        final CountDownLatch over = new CountDownLatch(1);
        private boolean leaving;
        private volatile boolean closed;
        private volatile int code;

        Request(String given) {
            in = new ByteArrayInputStream(given.getBytes(UTF_8));
        }

        void write(ByteArrayOutputStream stream, byte[] bytes, int offset, int length) {
            if (!closed) {
                stream.write(bytes, offset, length);
            }
        }

        /** The first who leaves says with which code. */
        void leave(int with, boolean runsHooks) {
            synchronized (this) {
                if (leaving) {
                    return;
                }
                leaving = true;
                code = with;
            }
            if (runsHooks) {
                List<Thread> running = hooks.stream().map(hook -> new Thread(group, hook)).collect(Collectors.toList());
                running.forEach(Thread::start);
                running.forEach(ToolServer::join);
            }
            closed = true;
            over.countDown();
        }

        List<Thread> threads() {
            Thread[] found = new Thread[group.activeCount() * 2 + 16];
            return List.of(Arrays.copyOf(found, group.enumerate(found, true)));
        }
    }

    /** Where a thread's output goes: to the request that started the thread, so that a stray one disturbs nobody. */
    private static final class Output extends OutputStream {
        private final boolean isError;

        Output(boolean isError) {
            this.isError = isError;
        }

        @Override
        public void write(int one) {
            write(new byte[] {(byte) one}, 0, 1);
        }

        @Override
        public void write(byte[] bytes, int offset, int length) {
            Request request = owner();
            if (request != null) {
                request.write(isError ? request.err : request.out, bytes, offset, length);
            }
        }
    }

    private static final class Input extends InputStream {
        @Override
        public int read() throws IOException {
            return owner().in.read();
        }

        @Override
        public int read(byte[] bytes, int offset, int length) throws IOException {
            return owner().in.read(bytes, offset, length);
        }

        @Override
        public int available() throws IOException {
            return owner().in.available();
        }
    }

    /** A tool may close it, and the next one prints to it nevertheless. */
    private static PrintStream printer(boolean isError) {
        return new PrintStream(new Output(isError), true, UTF_8) {
            @Override
            public void close() {
                flush();
            }
        };
    }

    private static Request owner() {
        Request request = OWNER.get();
        return request == null ? current : request;
    }

    private static void join(Thread thread) {
        try {
            thread.join();
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    public static void main(String[] arguments) throws Exception {
        DataInputStream requests = new DataInputStream(new BufferedInputStream(new FileInputStream(FileDescriptor.in)));
        DataOutputStream answers = new DataOutputStream(
            new BufferedOutputStream(new FileOutputStream(FileDescriptor.out)));
        System.setOut(printer(false));
        System.setErr(printer(true));
        System.setIn(new Input());
        Exit.setExitProcedure((code, message) -> exit(code, true));
        Exit.setHaltProcedure((code, message) -> exit(code, false));
        Exit.setShutdownHookAdder((name, hook) -> owner().hooks.add(hook));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> answer(answers, UNKNOWN)));
        List<String> strings;
        while ((strings = read(requests)) != null) {
            Request request = new Request(strings.get(1));
            current = request;
            run(request, strings.get(0), strings.subList(2, strings.size()).toArray(String[]::new));
            answer(answers, request.code);
        }
        Runtime.getRuntime().halt(0);
    }

    private static void exit(int code, boolean runsHooks) {
        owner().leave(code, runsHooks);
        throw new Left();
    }

    private static void run(Request request, String name, String[] arguments) throws InterruptedException {
        Thread tool = new Thread(request.group, () -> {
            OWNER.set(request);
            int code = call(name, arguments);
            while (!request.closed && request.threads().stream().anyMatch(ToolServer::isAwaited)) {
                pause();
            }
            request.leave(code, true);
        }, "main");
        tool.start();
        request.over.await();
        tool.join(CLEANING_MS);
    }

    private static boolean isAwaited(Thread thread) {
        return thread != Thread.currentThread() && !thread.isDaemon();
    }

    private static void pause() {
        try {
            Thread.sleep(5);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    /** The exit code where the tool does not exit by itself. */
    private static int call(String name, String[] arguments) {
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return 0;
        } catch (InvocationTargetException error) {
            System.err.print("Exception in thread \"main\" ");
            error.getCause().printStackTrace();
        } catch (ReflectiveOperationException error) {
            System.err.println("Error: Could not find or load main class " + name + ": " + error);
        }
        return 1;
    }

    /** Only once for each request: its thread may answer while a System.exit ends the JVM. */
    private static synchronized void answer(DataOutputStream answers, int code) {
        Request request = current;
        if (request == null) {
            return;
        }
        current = null;
        try {
            answers.writeInt(code);
            write(answers, request.out.toByteArray());
            write(answers, request.err.toByteArray());
            List<Thread> left = request.threads();
            int daemons = (int) left.stream().filter(Thread::isDaemon).count();
            answers.writeInt(left.size() - daemons);
            answers.writeInt(daemons);
            answers.flush();
        } catch (IOException error) {
            Runtime.getRuntime().halt(1); // nobody reads
        }
    }

    private static void write(DataOutputStream answers, byte[] bytes) throws IOException {
        answers.writeInt(bytes.length);
        answers.write(bytes);
    }

    private static List<String> read(DataInputStream requests) throws IOException {
        try {
            List<String> strings = new ArrayList<>();
            for (int left = requests.readInt(); left > 0; left--) {
                strings.add(new String(requests.readNBytes(requests.readInt()), UTF_8));
            }
            return strings;
        } catch (EOFException end) {
            return null;
        }
    }
}
