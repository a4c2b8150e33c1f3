/* Work that is shared out: a function of a range of points, called for ranges that cover all of them, in
   any order and at the same time. What a point gives does not depend on the range it is in. */
typedef void sx_work(const void *given, int64_t begin, int64_t end, int64_t worker);
/* run: the caller's parallel_for, or 0. worker 0 has its scratch in the plan; those above have `bytes`
   bytes each, from `scratch` on. */
typedef struct {
  void (*run)(void *pool, sx_work *work, const void *given, int64_t count);
  void *pool;
  unsigned char *scratch;
  int64_t bytes;
} sx_threads;
typedef struct {
  sx_work *work;
  const void *given;
  int64_t n, grain;
} sx_job;
static void sx_in_thread(const void *given, int64_t begin, int64_t end, int64_t worker) {
  const sx_job *const job = (const sx_job *)given;
  const sx_environment old = sx_enter();
  const int64_t last = end * job->grain;
  job->work(job->given, begin * job->grain, last < job->n ? last : job->n, worker);
  sx_leave(old);
}
/* The points 0 .. n - 1, each of so much work; ranges begin at multiples of `multiple`. */
static void sx_parallel(const sx_threads *t, sx_work *work, const void *given, int64_t n, int64_t each,
                        int64_t multiple) {
  const int64_t few = SX_UNIT / (each > 0 ? each : 1) + 1, grain = (few + multiple - 1) / multiple * multiple;
  if (n <= 0) return;
  if (t->run && n > grain) {
    const sx_job job = {work, given, n, grain};
    t->run(t->pool, sx_in_thread, &job, (n - 1) / grain + 1);
  } else {
    work(given, 0, n, 0);
  }
}
/* Where a worker's own scratch begins; 0: where the plan says. */
SX_FN unsigned char *sx_own(const sx_threads *t, int64_t worker) {
  return worker ? t->scratch + (worker - 1) * t->bytes : 0;
}
