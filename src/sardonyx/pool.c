/* The threads of a process: one pool for all sessions. threads.py compiles it once for this host.

   sardonyx_pool_for is what emitted programs call (emit/model.py). A run takes the pool for one launch at
   a time; where another run has it, the caller does its work alone. Threads are started by the first launch that
   is worth sharing out, spin for a short time after each, then sleep; a launch wakes as many as it has parts, so
   that a session with many threads costs those with few nothing. Each has a part of the points, the same from
   launch to launch, as what it wrote is in its own cache. Ranges are claimed, large ones first, when a part is done
   from others': a thread that the system does not run delays nobody by more than what it has claimed. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <time.h>
#if defined(__GNUC__)
#define PUBLIC __attribute__((visibility("default")))
#else
#define PUBLIC
#endif

enum { MOST = 256, SPIN_NS = 100000, CLOSED = -(1 << 20) };
typedef void work_fn(const void *given, int64_t begin, int64_t end, int64_t worker);

/* The launch that is shared out. gate: how many workers are in it; far below 0 while there is none. */
static struct {
  work_fn *work;
  const void *given;
  int64_t count, threads;
} job;
static int caller = -1; /* the core of who shares out */
static int64_t workers;
/* Of each worker: where what is left of its part begins; how many launches it has been called to, and whether it
   sleeps until the next. */
static struct { _Alignas(64) int64_t next; uint32_t turn; int32_t sleeps; pthread_cond_t wake; } parts[MOST];
static int32_t busy, gate = CLOSED;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int registered;

static void breathe(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return INT64_C(1000000000) * t.tv_sec + t.tv_nsec;
}

/* Takes ranges until none is left, of its own part, then of others': half of what is left of it, one at least. */
static void take_part(int64_t worker) {
  int64_t i;
  for (i = 0; i < job.threads; i++) {
    const int64_t whose = (worker + i) % job.threads, end = (whose + 1) * job.count / job.threads;
    int64_t *const next = &parts[whose].next, begin = __atomic_load_n(next, __ATOMIC_RELAXED);
    while (begin < end) {
      const int64_t size = (end - begin + 1) / 2;
      if (!__atomic_compare_exchange_n(next, &begin, begin + size, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) continue;
      job.work(job.given, begin, begin + size, worker);
      begin = __atomic_load_n(next, __ATOMIC_RELAXED);
    }
  }
}

/* Leaves the caller's core, where the system put this thread though there are others: it may stay so for seconds. */
static void step_aside(int cpu) {
#if defined(__linux__)
  cpu_set_t all, others;
  if (sched_getcpu() != cpu || sched_getaffinity(0, sizeof all, &all) || CPU_COUNT(&all) < 2) return;
  others = all;
  CPU_CLR(cpu, &others);
  if (!sched_setaffinity(0, sizeof others, &others)) sched_setaffinity(0, sizeof all, &all);
#else
  (void)cpu;
#endif
}

static void *live(void *argument) {
  const int64_t worker = (int64_t)(intptr_t)argument;
  const uint32_t *const turn = &parts[worker].turn;
  uint32_t seen = 0;
  for (;;) {
    int64_t until = 0;
    int i = 0;
    while (__atomic_load_n(turn, __ATOMIC_SEQ_CST) == seen) {
      breathe();
      if (++i % 64) continue;
      if (!until) until = now() + SPIN_NS;
      if (now() < until) continue;
      pthread_mutex_lock(&lock);
      __atomic_store_n(&parts[worker].sleeps, 1, __ATOMIC_SEQ_CST);
      while (__atomic_load_n(turn, __ATOMIC_SEQ_CST) == seen) pthread_cond_wait(&parts[worker].wake, &lock);
      __atomic_store_n(&parts[worker].sleeps, 0, __ATOMIC_SEQ_CST);
      pthread_mutex_unlock(&lock);
    }
    seen = __atomic_load_n(turn, __ATOMIC_SEQ_CST);
    step_aside(__atomic_load_n(&caller, __ATOMIC_RELAXED));
    if (__atomic_add_fetch(&gate, 1, __ATOMIC_ACQ_REL) > 0 && worker < job.threads) take_part(worker);
    __atomic_sub_fetch(&gate, 1, __ATOMIC_RELEASE);
  }
  return 0;
}

/* After a fork the child has one thread, and a pool as new. */
static void forget(void) {
  workers = 0, busy = 0, gate = CLOSED;
  pthread_mutex_init(&lock, 0);
}

/* Starts threads until there are so many; there may be fewer afterwards. */
static void start(int64_t wanted) {
  sigset_t all, old;
  pthread_attr_t attributes;
  if (!registered) registered = pthread_atfork(0, 0, forget) == 0;
  if (!registered || pthread_attr_init(&attributes)) return;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 1 << 21);
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &old);
  while (workers < wanted) {
    pthread_t thread;
    parts[workers + 1].turn = 0, parts[workers + 1].sleeps = 0;
    if (pthread_cond_init(&parts[workers + 1].wake, 0)) break;
    if (pthread_create(&thread, &attributes, live, (void *)(intptr_t)(workers + 1))) break;
    __atomic_store_n(&workers, workers + 1, __ATOMIC_RELAXED);
  }
  pthread_sigmask(SIG_SETMASK, &old, 0);
  pthread_attr_destroy(&attributes);
}

/* pool: the number of threads of the session, the caller included (an int64_t). */
PUBLIC void sardonyx_pool_for(void *pool, work_fn *work, const void *given, int64_t count) {
  int64_t threads = *(const int64_t *)pool;
  int64_t i;
  if (threads > count) threads = count;
  if (threads > MOST) threads = MOST;
  if (threads < 2 || __atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE)) {
    work(given, 0, count, 0);
    return;
  }
  if (workers < threads - 1) start(threads - 1);
  job.work = work, job.given = given, job.count = count, job.threads = threads;
#if defined(__linux__)
  __atomic_store_n(&caller, sched_getcpu(), __ATOMIC_RELAXED);
#endif
  for (i = 0; i < threads; i++) __atomic_store_n(&parts[i].next, i * count / threads, __ATOMIC_RELAXED);
  __atomic_sub_fetch(&gate, CLOSED, __ATOMIC_RELEASE);
  for (i = 1; i < threads && i <= workers; i++) {
    __atomic_add_fetch(&parts[i].turn, 1, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&parts[i].sleeps, __ATOMIC_SEQ_CST)) continue;
    pthread_mutex_lock(&lock); /* it waits by now, or has seen its turn */
    pthread_mutex_unlock(&lock);
    pthread_cond_signal(&parts[i].wake);
  }
  i = 0;
  take_part(0);
  __atomic_add_fetch(&gate, CLOSED, __ATOMIC_ACQ_REL);
  while (__atomic_load_n(&gate, __ATOMIC_ACQUIRE) != CLOSED) {
    if (++i < 2000) breathe();
    else sched_yield();
  }
  __atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
}

/* How many threads there are besides the callers. */
PUBLIC int64_t sardonyx_pool_threads(void) { return __atomic_load_n(&workers, __ATOMIC_RELAXED); }
