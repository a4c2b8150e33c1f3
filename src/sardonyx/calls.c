/* What calls.py compiles once for this Python: programs for fixed sizes as objects that are called with the
   feeds. A call takes its arrays as they are and holds no lock while the program runs; whatever is not of the
   expected type, shape and layout gives None, and the caller takes the long way. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>
#include <stddef.h>
#include <stdint.h>

enum { MOST = 256 };      /* inputs and outputs */
enum { LINE = 64 };       /* bytes of a line of the cache: stores of vectors that cross its end take twice the time */
enum { LARGE = 1 << 14 }; /* bytes from which on an output begins with a line, and lies where others have lain: pages
                             that are new the system clears first */

typedef struct {
  unsigned char *memory;
  const unsigned char *weights;
  const int64_t *dims, *offsets;
  const void *const *inputs;
  void *const *outputs;
  int32_t operation;
  void (*parallel_for)(void *, void (*)(const void *, int64_t, int64_t, int64_t), const void *, int64_t);
  void *pool;
  unsigned char *scratch;
  int64_t threads;
} sx_context;

typedef struct {
  PyObject *name; /* of an input, interned */
  PyArray_Descr *descr;
  int rank;
  npy_intp shape[NPY_MAXDIMS];
} sx_tensor;

typedef struct {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  int (*run)(sx_context *);
  const unsigned char *weights;
  const int64_t *dims, *offsets;
  npy_intp size, scratch;    /* N; where in M the scratch of further threads begins */
  uintptr_t parallel_for;    /* with what it is given; 0: one thread */
  void *pool;
  PyObject *idle, *allocate; /* a list of memories, what makes one more */
  PyObject *blocks;          /* a list of what large outputs lie in, of all calls of a program */
  PyObject *held;            /* what lives as long as the call: library, weights, tables */
  Py_ssize_t inputs, outputs;
  sx_tensor *tensors; /* inputs, then outputs */
} sx_call;

/* Whether all are 0 or 1: what views of other bytes make of a boolean is for the long way. */
static int booleans(const unsigned char *x, npy_intp n) {
  unsigned char any = 0;
  npy_intp i;
  for (i = 0; i < n; i++) any |= x[i];
  return any <= 1;
}

static int fits(PyObject *x, const sx_tensor *t) {
  PyArrayObject *a = (PyArrayObject *)x;
  return PyArray_CheckExact(x) && PyArray_DESCR(a) == t->descr && PyArray_NDIM(a) == t->rank &&
         PyArray_IS_C_CONTIGUOUS(a) && PyArray_ISALIGNED(a) &&
         PyArray_CompareLists(PyArray_DIMS(a), t->shape, t->rank) &&
         (PyArray_TYPE(a) != NPY_BOOL || booleans(PyArray_DATA(a), PyArray_SIZE(a)));
}

/* A memory of N bytes, from those that are idle where one is large enough. */
static PyObject *take(sx_call *c) {
  const Py_ssize_t n = PyList_GET_SIZE(c->idle);
  if (n > 0) {
    PyObject *m = PyList_GET_ITEM(c->idle, n - 1);
    Py_INCREF(m);
    if (PyList_SetSlice(c->idle, n - 1, n, NULL) < 0) {
      Py_DECREF(m);
      return NULL;
    }
    if (PyArray_CheckExact(m) && PyArray_SIZE((PyArrayObject *)m) >= c->size) return m;
    Py_DECREF(m);
  }
  return PyObject_CallNoArgs(c->allocate);
}

/* n bytes or up to an eighth more, so that what grows run by run finds them again; at most twice as many as there
   are outputs are kept: the caller may hold one while the next run writes. */
static PyObject *block(sx_call *c, npy_intp n) {
  npy_intp step = 1, i, unused = -1;
  PyObject *b;
  for (i = 0; i < PyList_GET_SIZE(c->blocks); i++) {
    b = PyList_GET_ITEM(c->blocks, i);
    if (Py_REFCNT(b) != 1 || !PyArray_CheckExact(b)) continue;
    if (PyArray_SIZE((PyArrayObject *)b) >= n && PyArray_SIZE((PyArrayObject *)b) / 2 <= n) return Py_NewRef(b);
    unused = i;
  }
  while (n >> 4 >= step) step *= 2;
  if (n <= NPY_MAX_INTP - step) n = (n + step - 1) / step * step;
  b = PyArray_SimpleNew(1, &n, NPY_UINT8);
  if (!b) return NULL;
  if (PyList_GET_SIZE(c->blocks) < 2 * c->outputs) i = PyList_Append(c->blocks, b);
  else if (unused >= 0) i = PyList_SetItem(c->blocks, unused, Py_NewRef(b));
  if (i >= 0) return b;
  Py_DECREF(b);
  return NULL;
}

/* An array for an output; a large one in bytes that nobody has any more, where there are. */
static PyObject *array(sx_call *c, sx_tensor *t) {
  const npy_intp n = PyArray_MultiplyList(t->shape, t->rank) * PyDataType_ELSIZE(t->descr);
  PyObject *b, *y;
  char *at;
  Py_INCREF(t->descr);
  if (n < LARGE) return PyArray_NewFromDescr(&PyArray_Type, t->descr, t->rank, t->shape, NULL, NULL, 0, NULL);
  b = n > NPY_MAX_INTP - LINE ? PyErr_NoMemory() : block(c, n + LINE);
  at = b ? (char *)PyArray_DATA((PyArrayObject *)b) : NULL;
  at += b ? -(uintptr_t)at % LINE : 0;
  y = !b ? NULL
         : PyArray_NewFromDescr(&PyArray_Type, t->descr, t->rank, t->shape, NULL, at, NPY_ARRAY_CARRAY, NULL);
  if (!b) Py_DECREF(t->descr);
  if (y && PyArray_SetBaseObject((PyArrayObject *)y, b) == 0) return y; /* has taken b */
  if (!y) Py_XDECREF(b);
  Py_XDECREF(y);
  return NULL;
}

/* The outputs as a list of arrays, and where each lies. */
static PyObject *empty(sx_call *c, void **out) {
  Py_ssize_t i;
  PyObject *found = PyList_New(c->outputs);
  for (i = 0; found && i < c->outputs; i++) {
    PyObject *y = array(c, &c->tensors[c->inputs + i]);
    if (!y) {
      Py_DECREF(found);
      return NULL;
    }
    PyList_SET_ITEM(found, i, y);
    out[i] = PyArray_DATA((PyArrayObject *)y);
  }
  return found;
}

static void release(PyObject *const *objects, Py_ssize_t n) {
  Py_ssize_t i;
  for (i = 0; i < n; i++) Py_DECREF(objects[i]);
}

/* The outputs as a list; None where a feed does not fit, or the program traps. `given` is held from the moment
   it is found: a key of the feeds may run Python code that drops what lies under another. */
static PyObject *call(PyObject *self, PyObject *const *args, size_t flags, PyObject *names) {
  sx_call *c = (sx_call *)self;
  PyObject *feeds, *memory = NULL, *found, *given[MOST];
  const void *in[MOST];
  void *out[MOST];
  sx_context context = {0};
  Py_ssize_t i;
  int error;
  if (PyVectorcall_NARGS(flags) != 1 || names) {
    PyErr_SetString(PyExc_TypeError, "a call takes the feeds");
    return NULL;
  }
  feeds = args[0];
  if (!PyDict_CheckExact(feeds) || PyDict_GET_SIZE(feeds) != c->inputs) Py_RETURN_NONE;
  for (i = 0; i < c->inputs; i++) {
    given[i] = PyDict_GetItemWithError(feeds, c->tensors[i].name);
    Py_XINCREF(given[i]);
    if (!given[i] || !fits(given[i], &c->tensors[i])) {
      release(given, i + (given[i] != NULL));
      if (PyErr_Occurred()) return NULL;
      Py_RETURN_NONE;
    }
    in[i] = PyArray_DATA((PyArrayObject *)given[i]);
  }
  found = empty(c, out);
  if (found) memory = take(c);
  if (!memory) {
    Py_XDECREF(found);
    release(given, c->inputs);
    return NULL;
  }
  context.memory = PyArray_DATA((PyArrayObject *)memory);
  context.weights = c->weights, context.dims = c->dims, context.offsets = c->offsets;
  context.inputs = in, context.outputs = out;
  context.parallel_for = (void (*)(void *, void (*)(const void *, int64_t, int64_t, int64_t), const void *,
                                   int64_t))c->parallel_for;
  context.pool = c->pool, context.scratch = context.memory + c->scratch;
  context.threads = c->pool ? *(const int64_t *)c->pool : 1; /* as in threads.py */
  Py_INCREF(self);
  Py_BEGIN_ALLOW_THREADS
  error = c->run(&context);
  Py_END_ALLOW_THREADS
  release(given, c->inputs);
  if (PyList_Append(c->idle, memory) < 0) error = -1;
  Py_DECREF(memory);
  Py_DECREF(self);
  if (!error) return found;
  Py_DECREF(found);
  if (error < 0) return NULL;
  Py_RETURN_NONE;
}

static void drop(PyObject *self) {
  sx_call *c = (sx_call *)self;
  Py_ssize_t i;
  for (i = 0; c->tensors && i < c->inputs + c->outputs; i++) {
    Py_XDECREF(c->tensors[i].name);
    Py_XDECREF(c->tensors[i].descr);
  }
  PyMem_Free(c->tensors);
  Py_XDECREF(c->idle);
  Py_XDECREF(c->blocks);
  Py_XDECREF(c->allocate);
  Py_XDECREF(c->held);
  PyObject_Free(self);
}

static PyTypeObject call_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "sardonyx.Call",
    .tp_basicsize = sizeof(sx_call),
    .tp_dealloc = drop,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(sx_call, vectorcall),
    .tp_call = PyVectorcall_Call,
};

/* t from (name, dtype, shape) */
static int read_tensor(sx_tensor *t, PyObject *from) {
  PyObject *name, *descr, *shape;
  Py_ssize_t i;
  if (!PyArg_ParseTuple(from, "UO!O!", &name, &PyArrayDescr_Type, &descr, &PyTuple_Type, &shape)) return 0;
  if (PyTuple_GET_SIZE(shape) > NPY_MAXDIMS) {
    PyErr_SetString(PyExc_ValueError, "too many dimensions");
    return 0;
  }
  t->rank = (int)PyTuple_GET_SIZE(shape);
  for (i = 0; i < t->rank; i++) t->shape[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, i));
  if (PyErr_Occurred()) return 0;
  Py_INCREF(descr);
  t->descr = (PyArray_Descr *)descr;
  Py_INCREF(name);
  t->name = name;
  PyUnicode_InternInPlace(&t->name);
  return 1;
}

/* make(run, weights, dims, offsets, size, idle, allocate, held, inputs, outputs, parallel_for, pool, scratch, blocks):
   four addresses, N, the tensors as (name, dtype, shape), two addresses and an offset for threads, a list */
static PyObject *make(PyObject *module, PyObject *args) {
  unsigned long long run, weights, dims, offsets, parallel_for, pool;
  Py_ssize_t size, scratch, i, n, m;
  PyObject *idle, *allocate, *held, *inputs, *outputs, *blocks;
  sx_call *c;
  (void)module;
  if (!PyArg_ParseTuple(args, "KKKKnO!OOO!O!KKnO!", &run, &weights, &dims, &offsets, &size, &PyList_Type, &idle,
                        &allocate, &held, &PyTuple_Type, &inputs, &PyTuple_Type, &outputs, &parallel_for, &pool, &scratch,
                        &PyList_Type, &blocks))
    return NULL;
  n = PyTuple_GET_SIZE(inputs), m = PyTuple_GET_SIZE(outputs);
  if (n > MOST || m > MOST) Py_RETURN_NONE;
  c = PyObject_New(sx_call, &call_type);
  if (!c) return NULL;
  c->vectorcall = call;
  c->run = (int (*)(sx_context *))(uintptr_t)run;
  c->weights = (const unsigned char *)(uintptr_t)weights;
  c->dims = (const int64_t *)(uintptr_t)dims, c->offsets = (const int64_t *)(uintptr_t)offsets;
  c->parallel_for = (uintptr_t)parallel_for, c->pool = (void *)(uintptr_t)pool;
  c->size = size, c->scratch = scratch, c->inputs = n, c->outputs = m;
  Py_INCREF(idle), Py_INCREF(blocks), Py_INCREF(allocate), Py_INCREF(held);
  c->idle = idle, c->blocks = blocks, c->allocate = allocate, c->held = held;
  c->tensors = PyMem_Calloc((size_t)(n + m) + 1, sizeof(sx_tensor));
  for (i = 0; c->tensors && i < n + m; i++)
    if (!read_tensor(&c->tensors[i], i < n ? PyTuple_GET_ITEM(inputs, i) : PyTuple_GET_ITEM(outputs, i - n)))
      break;
  if (c->tensors && i == n + m) return (PyObject *)c;
  if (!c->tensors) PyErr_NoMemory();
  Py_DECREF(c);
  return NULL;
}

static PyMethodDef methods[] = {{"make", make, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "sardonyx_calls", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit_sardonyx_calls(void) {
  import_array();
  if (PyType_Ready(&call_type) < 0) return NULL;
  return PyModule_Create(&definition);
}
