/* Runs and times libraries of kernels on the machine that it is copied to; its standard input says what, its standard output
 * tells what came out, a line of JSON for each request. It is its own folder's: argv[1] is where files are put, and it goes
 * with the folder when its input ends, which is when the connection does.
 *
 *   machine                                        {"machine": "model", "cpus": 4}
 *   file NAME BYTES, then the bytes                {}
 *   args N {KIND BYTES IS_OUTPUT} ...              {}: the arguments; KIND is e1 e2 e4 e8 (exact), f8 f4 f2 or b2 (bfloat16)
 *   reference LIB MS MEMORY THREADS                {"seconds": 1e-3}: what LIB computes is right from now on
 *   run LIB MS MEMORY THREADS BUDGET CUTOFF        {"times": [...]}: BUDGET and CUTOFF in nanoseconds, CUTOFF 0 for none
 *   rivals LIB,LIB,... MS MEMORY THREADS BUDGET 0  {"times": [[...], ...]}
 *
 * Each of the last three runs in a process of its own, which may do anything but harm: {"failure": "crash", "message": ...}.
 * The input of argument i is the file `i`, what its output should be `i.right`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_ARGS = 256, MOST_LIBS = 16, MOST_TIMES = 101, LINE = 1 << 16 };

typedef struct { char kind, size; int is_output; int64_t bytes; void *data, *right; double typical; } Argument;
typedef int32_t (*Call)(void **);
typedef const char *(*Explain)(int32_t);

static Argument args[MOST_ARGS];
static int count;
static int answer = STDOUT_FILENO;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void say(const char *text) {
    size_t left = strlen(text);
    while (left) {
        ssize_t done = write(answer, text, left);
        if (done < 0 && errno != EINTR) _exit(3);
        if (done > 0) { text += done; left -= (size_t)done; }
    }
}

static void fail(const char *kind, const char *message) {
    char text[2400], *to = text;
    to += sprintf(to, "{\"failure\": \"%s\", \"message\": \"", kind);
    for (int i = 0; message[i] && i < 2000; i++) {
        unsigned char c = (unsigned char)message[i];
        *to++ = (char)(c < 32 || c > 126 || c == '"' || c == '\\' ? ' ' : c);
    }
    strcpy(to, "\"}\n");
    say(text);
}

/* In the process that runs a library */

static void give_up(const char *kind, const char *message) {
    fail(kind, message);
    _exit(0);
}

static void *room(int64_t bytes) {
    void *data = NULL;
    if (posix_memalign(&data, 64, (size_t)(bytes > 0 ? bytes : 64))) give_up("memory", "no memory for the arrays");
    return data;
}

static void load(const char *name, void *data, int64_t bytes) {
    int file = open(name, O_RDONLY);
    for (int64_t at = 0; at < bytes;) {
        ssize_t got = file < 0 ? -1 : read(file, (char *)data + at, (size_t)(bytes - at));
        if (got <= 0) give_up("protocol", "a file of arrays is missing");
        at += got;
    }
    if (file >= 0) close(file);
}

static double value(const Argument *a, const void *data, int64_t i) {
    if (a->kind == 'f' && a->size == 8) return ((const double *)data)[i];
    if (a->kind == 'f' && a->size == 4) return (double)((const float *)data)[i];
    uint16_t half = ((const uint16_t *)data)[i];
    if (a->kind == 'b') {
        uint32_t bits = (uint32_t)half << 16;
        float wide;
        memcpy(&wide, &bits, 4);
        return (double)wide;
    }
    int exponent = half >> 10 & 31, part = half & 1023;
    double size = exponent == 31 ? (part ? NAN : INFINITY) : exponent ? ldexp(1024 + part, exponent - 25) : ldexp(part, -24);
    return half >> 15 ? -size : size;
}

static int64_t elements(const Argument *a) { return a->bytes / a->size; }

/* Outputs hold what no program computes by chance. */
static void poison(void) {
    for (int k = 0; k < count; k++) {
        Argument *a = &args[k];
        if (!a->is_output) continue;
        memset(a->data, a->kind == 'e' ? 0x5A : 0xFF, (size_t)a->bytes);   /* all ones are a NaN */
    }
}

static void prepare(int with_right) {
    char name[32];
    for (int k = 0; k < count; k++) {
        Argument *a = &args[k];
        a->data = room(a->bytes);
        sprintf(name, "%d", k);
        if (!a->is_output) load(name, a->data, a->bytes);
        if (!a->is_output || !with_right) continue;
        a->right = room(a->bytes);
        sprintf(name, "%d.right", k);
        load(name, a->right, a->bytes);
        double sum = 0;
        int64_t finite = 0;
        for (int64_t i = 0; a->kind != 'e' && i < elements(a); i++) {
            double wanted = value(a, a->right, i);
            if (isfinite(wanted)) { sum += wanted * wanted; finite++; }
        }
        a->typical = finite ? sqrt(sum / (double)finite) : 0;
    }
}

static int differs(const Argument *a, int64_t i) {
    if (a->kind == 'e') return memcmp((char *)a->data + i * a->size, (char *)a->right + i * a->size, (size_t)a->size) != 0;
    double is = value(a, a->data, i), wanted = value(a, a->right, i);
    double relative = a->size == 8 ? 1e-9 : a->size == 4 ? 3e-4 : 3e-2;
    return !(is == wanted || fabs(is - wanted) <= relative * (fabs(wanted) + a->typical) || (isnan(is) && isnan(wanted)));
}

static void compare(const char *when) {
    for (int k = 0; k < count; k++) {
        Argument *a = &args[k];
        int64_t wrong = 0, first = 0;
        for (int64_t i = 0; a->is_output && i < elements(a); i++)
            if (differs(a, i) && !wrong++) first = i;
        if (wrong) {
            char text[200];
            sprintf(text, "%sargument %d: %lld of %lld elements differ, the first is number %lld", when, k, (long long)wrong,
                    (long long)elements(a), (long long)first);
            give_up("wrong output", text);
        }
    }
}

static Call opened(const char *name, int threads, Explain *explain) {
    char path[256];
    snprintf(path, sizeof path, "./%s", name);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) give_up("refused", dlerror());
    Call call = (Call)dlsym(library, "tw_measured_call");
    void (*share)(int32_t) = (void (*)(int32_t))dlsym(library, "tw_measured_threads");
    *explain = (Explain)dlsym(library, "tw_measured_error");
    if (!call || !share || !*explain) give_up("refused", "it is no library of a candidate");
    share(threads);
    return call;
}

static double seconds(Call call, Explain explain, long number) {
    void *data[MOST_ARGS];
    for (int k = 0; k < count; k++) data[k] = args[k].data;
    double start = now();
    for (long i = 0; i < number; i++) {
        int32_t status = call(data);
        if (status) give_up("refused", explain(status));
    }
    return (now() - start) / (double)number;
}

static int put_times(char *to, const double *times, int n) {
    int length = sprintf(to, "[");
    for (int i = 0; i < n; i++) length += sprintf(to + length, "%s%.9g", i ? ", " : "", times[i] > 1e-9 ? times[i] : 1e-9);
    return length + sprintf(to + length, "]");
}

static void tell_times(const double *times, int n) {
    static char text[LINE];
    int length = sprintf(text, "{\"times\": ");
    length += put_times(text + length, times, n);
    strcpy(text + length, "}\n");
    say(text);
    _exit(0);
}

static void do_reference(char **libs, int threads) {
    Explain explain;
    double times[5], total = 0;
    int n = 0;
    char text[64];
    Call call = opened(libs[0], threads, &explain);
    prepare(0);
    poison();
    while (n < 5 && (!n || total < 0.1)) {
        total += times[n++] = seconds(call, explain, 1);
        for (int k = 0; n == 1 && k < count; k++) {
            if (!args[k].is_output) continue;
            sprintf(text, "%d.right", k);
            FILE *file = fopen(text, "wb");
            size_t done = file ? fwrite(args[k].data, 1, (size_t)args[k].bytes, file) : 0;
            if (!file || done != (size_t)args[k].bytes || fclose(file)) give_up("memory", "no room for the reference outputs");
        }
    }
    for (int i = 0; i < n; i++)
        for (int j = i; j > 0 && times[j] < times[j - 1]; j--) { double t = times[j]; times[j] = times[j - 1]; times[j - 1] = t; }
    sprintf(text, "{\"seconds\": %.9g}\n", times[n / 2] > 1e-9 ? times[n / 2] : 1e-9);
    say(text);
    _exit(0);
}

static void do_run(char **libs, int threads, double budget, double cutoff) {
    Explain explain;
    double times[MOST_TIMES];
    int n = 0;
    Call call = opened(libs[0], threads, &explain);
    prepare(1);
    poison();
    double first = seconds(call, explain, 1), least = cutoff > 0 ? fmax(cutoff, 1e-4) : INFINITY;
    compare("");
    times[0] = first;
    if (first > 4 * least) tell_times(times, 1);
    if (first < 1e-2) seconds(call, explain, 1); /* as autotune.worker does: what is timed finds its threads awake */
    times[1] = seconds(call, explain, 1);
    if (fmin(first, times[1]) > least) tell_times(times, 2);
    long number = (long)fmax(1, 1e-3 / fmax(times[1], 1e-7));
    if (number == 1) times[n++] = times[1];
    for (double stop = now() + budget; n < 3 || (now() < stop && n < 15);) times[n++] = seconds(call, explain, number);
    compare("at a later call: ");
    tell_times(times, n);
}

static void do_rivals(char **libs, int several, int threads, double budget) {
    static double times[MOST_LIBS][MOST_TIMES];
    static char text[LINE];
    Explain explain[MOST_LIBS];
    Call call[MOST_LIBS];
    long number[MOST_LIBS];
    int n = 0, length = sprintf(text, "{\"times\": [");
    prepare(0);
    for (int k = 0; k < several; k++) {
        call[k] = opened(libs[k], threads, &explain[k]);
        number[k] = (long)fmax(1, 2e-3 / fmax(seconds(call[k], explain[k], 1), 1e-7));
    }
    for (double stop = now() + budget; n < 5 || (now() < stop && n < MOST_TIMES); n++)
        for (int k = 0; k < several; k++) times[k][n] = seconds(call[k], explain[k], number[k]);
    for (int k = 0; k < several; k++) {
        length += sprintf(text + length, k ? ", " : "");
        length += put_times(text + length, times[k], n);
    }
    strcpy(text + length, "]}\n");
    say(text);
    _exit(0);
}

/* In the process that answers */

static void tell_end(int status, int is_late) {
    char text[120];
    if (is_late) {
        fail("timeout", "running takes longer than it may");
    } else if (WIFSIGNALED(status)) {
        sprintf(text, "the process was ended by signal %d (%.60s) while running", WTERMSIG(status), strsignal(WTERMSIG(status)));
        fail(WTERMSIG(status) == SIGKILL ? "killed" : "crash", text);
    } else {
        sprintf(text, "the process ended with status %d while running", WEXITSTATUS(status));
        fail("exit", text);
    }
}

static void confine(long long memory) {
    struct rlimit space = {(rlim_t)memory, (rlim_t)memory}, none = {0, 0};
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_AS, &space);
    setrlimit(RLIMIT_CORE, &none);
    int nowhere = open("/dev/null", O_RDWR);
    dup2(nowhere, STDIN_FILENO);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
}

static void measured(const char *what, char *names, long long ms, long long memory, int threads, double budget, double cutoff) {
    char *libs[MOST_LIBS], text[LINE];
    int several = 0, ends[2], status = 0, is_late = 0;
    size_t length = 0;
    for (char *name = strtok(names, ","); name && several < MOST_LIBS; name = strtok(NULL, ",")) libs[several++] = name;
    if (!several || pipe2(ends, O_CLOEXEC)) { fail("protocol", "no library, or no pipe"); return; }
    pid_t child = fork();
    if (!child) {
        answer = ends[1];
        confine(memory);
        if (*what == 'r' && what[1] == 'e') do_reference(libs, threads);
        if (*what == 'r' && what[1] == 'u') do_run(libs, threads, budget, cutoff);
        do_rivals(libs, several, threads, budget);
    }
    close(ends[1]);
    if (child < 0) { close(ends[0]); fail("memory", "no process"); return; }
    double stop = now() + 1e-3 * (double)ms;
    for (;;) {
        struct pollfd watched = {ends[0], POLLIN, 0};
        int left = (int)fmax(0, 1e3 * (stop - now()));
        int ready = poll(&watched, 1, left);
        if (ready < 0 && errno == EINTR) continue;
        is_late = ready == 0;
        if (ready <= 0) break;
        ssize_t got = read(ends[0], text + length, sizeof text - 1 - length);
        if (got <= 0 || (length += (size_t)got) >= sizeof text - 1) break;
    }
    kill(-child, SIGKILL);
    if (is_late || (length && text[length - 1] == '\n')) kill(child, SIGKILL);
    waitpid(child, &status, 0);
    close(ends[0]);
    text[length] = 0;
    if (!is_late && length && strchr(text, '\n') == text + length - 1) say(text);
    else tell_end(status, is_late);
    for (int k = 0; k < several; k++) unlink(libs[k]);
}

static void tell_machine(void) {
    char line[512], model[256] = "", text[600];
    struct utsname system;
    cpu_set_t cpus;
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && !*model && fgets(line, sizeof line, file))
        if (!strncmp(line, "model name", 10) && strchr(line, ':')) snprintf(model, sizeof model, "%s", strchr(line, ':') + 1);
    if (file) fclose(file);
    if (!*model && !uname(&system)) snprintf(model, sizeof model, "%s", system.machine);
    for (char *c = model; *c; c++)
        if (*c < 32 || *c > 126 || *c == '"' || *c == '\\') *c = ' ';
    CPU_ZERO(&cpus);
    int many = sched_getaffinity(0, sizeof cpus, &cpus) ? 1 : CPU_COUNT(&cpus);
    snprintf(text, sizeof text, "{\"machine\": \"%s\", \"cpus\": %d}\n", model, many);
    say(text);
}

static int take_file(const char *name, long long bytes) {
    static char part[1 << 16];
    FILE *file = fopen(name, "wb");
    int is_whole = file != NULL;
    while (bytes > 0) {
        size_t got = fread(part, 1, bytes < (long long)sizeof part ? (size_t)bytes : sizeof part, stdin);
        if (!got) return 0;
        is_whole = is_whole && fwrite(part, 1, got, file) == got;
        bytes -= (long long)got;
    }
    if (file && fclose(file)) is_whole = 0;
    if (is_whole) say("{}\n");
    else fail("memory", "no room for a file");
    return 1;
}

static void take_args(char *text) {
    long many = strtol(text, &text, 10);
    for (count = 0; count < many && count < MOST_ARGS; count++) {
        Argument *a = &args[count];
        int used, size;
        long long bytes;
        if (sscanf(text, " %c%d %lld %d%n", &a->kind, &size, &bytes, &a->is_output, &used) != 4) break;
        a->size = (char)size;
        a->bytes = bytes;
        text += used;
    }
    if (count == many) say("{}\n");
    else fail("protocol", "the arguments are not understood");
}

int main(int argc, char **argv) {
    static char line[LINE];
    char name[1024], what[16];
    long long a, b, budget, cutoff;
    int threads;
    if (argc != 2 || chdir(argv[1])) return 2;
    signal(SIGPIPE, SIG_IGN);
    while (fgets(line, sizeof line, stdin)) {
        if (!strncmp(line, "machine", 7)) tell_machine();
        else if (!strncmp(line, "args ", 5)) take_args(line + 5);
        else if (sscanf(line, "file %63[a-z0-9.] %lld", name, &a) == 2) { if (!take_file(name, a)) break; }
        else if (sscanf(line, "%15[a-z] %1023[a-z0-9.,] %lld %lld %d %lld %lld", what, name, &a, &b, &threads, &budget, &cutoff) == 7)
            measured(what, name, a, b, threads, 1e-9 * (double)budget, 1e-9 * (double)cutoff);
        else fail("protocol", "what was asked is not known here");
    }
    return 0;
}
