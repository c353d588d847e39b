/* The recording core: lazy values, the one dict lookup of a repeated call, waiting nodes, the plan of a flush.
 *
 * Its parts stand in the files that are included here, in their order; to the compiler they are one. It touches only
 * Python objects and integers and calls nothing of PyTorch's C++. `_core_py.py` is the same in Python: the reference,
 * and what runs where no compiler was there. Both are tested against each other. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "values.h"
#include "nodes.h"
#include "calls.h"
#include "rows.h"
#include "plan.h"
#include "lanes.h"
#include "functions.h"

/* ---------------------------------------------------------------- cells */
typedef struct { PyObject_HEAD char method; } CellObject;
static PyMemberDef cell_members[] = {
    {"method", T_BOOL, offsetof(CellObject, method), 0, "defined in a class: the first argument is `self`"}, {NULL}};
static PyObject *cell_get(PyObject *self, PyObject *obj, PyObject *type) {
    if (!obj || obj == Py_None) { Py_INCREF(self); return self; }
    return PyMethod_New(self, obj);
}
static PyObject *cell_call(PyObject *self, PyObject *args, PyObject *kw) {
    if (here && (!kw || PyDict_GET_SIZE(kw) == 0) && PyTuple_GET_SIZE(args)) {
        PyObject *const call[] = {self, Py_None, args, ((CellObject *)self)->method ? Py_True : Py_False};
        PyObject *res = core_call(here, call, 4);
        if (res != Py_NotImplemented) return res;
        Py_DECREF(res);
    }
    PyObject *slow = PyObject_GetAttr(self, s_slow);
    if (!slow) return NULL;
    PyObject *res = PyObject_Call(slow, args, kw);
    Py_DECREF(slow);
    return res;
}
static PyTypeObject CellType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "plait.batching._core.CellBase", .tp_basicsize = sizeof(CellObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .tp_new = PyType_GenericNew, .tp_members = cell_members,
    .tp_call = cell_call, .tp_descr_get = cell_get};

/* ---------------------------------------------------------------- modules and methods
 * What stands as `__call__` in the classes of torch.nn while lanes run; with a name, a method of values. */
typedef struct { PyObject_HEAD PyObject *slow, *name; vectorcallfunc call; } FastCallObject;
static PyTypeObject FastCallType;
static PyMemberDef fast_call_members[] = {
    {"slow", T_OBJECT, offsetof(FastCallObject, slow), 0, "the long way, called with the module or value first"}, {NULL}};
static PyObject *fast_call_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names) {
    FastCallObject *f = (FastCallObject *)self;
    Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    if (here && n && (!names || PyTuple_GET_SIZE(names) == 0)) {
        PyObject *res;
        if (f->name == Py_None) {
            PyObject *training = training_of(here, args[0]);
            if (!training) return NULL;
            res = call_again(here, args[0], training, NULL, args + 1, n - 1, NULL);
            Py_DECREF(training);
        } else res = call_again(here, f->name, Py_None, NULL, args, n, NULL);
        if (res != Py_NotImplemented) return res;
        Py_DECREF(res);
    }
    return PyObject_Vectorcall(f->slow, args, nargsf, names);
}
static int fast_call_init(FastCallObject *f, PyObject *args, PyObject *kw) {
    PyObject *slow, *name = Py_None;
    if (!PyArg_ParseTuple(args, "O|O", &slow, &name)) return -1;
    Py_INCREF(slow); Py_XSETREF(f->slow, slow);
    Py_INCREF(name); Py_XSETREF(f->name, name);
    f->call = fast_call_call;
    return 0;
}
static void fast_call_dealloc(FastCallObject *f) {
    Py_XDECREF(f->slow); Py_XDECREF(f->name);
    Py_TYPE(f)->tp_free((PyObject *)f);
}
static PyTypeObject FastCallType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "plait.batching._core.FastCall", .tp_basicsize = sizeof(FastCallObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = PyType_GenericNew, .tp_init = (initproc)fast_call_init, .tp_dealloc = (destructor)fast_call_dealloc,
    .tp_members = fast_call_members, .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(FastCallObject, call), .tp_descr_get = cell_get};

/* asked(waiting) -> (64-bit rows, meta, {place: count}) if all wait for values of one kind that are one row each; or None */
static PyObject *core_asked(CoreObject *c, PyObject *waiting) {
    if (!PyList_CheckExact(waiting) || PyList_GET_SIZE(waiting) == 0) Py_RETURN_NONE;
    Py_ssize_t n = PyList_GET_SIZE(waiting), run = 0;
    PyObject *meta = NULL, *rows = PyByteArray_FromStringAndSize(NULL, n * sizeof(int64_t)), *places = PyDict_New();
    if (!rows || !places) goto error;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *request = PyTuple_GET_ITEM(PyList_GET_ITEM(waiting, i), 2);
        LazyObject *x = (LazyObject *)PyTuple_GET_ITEM(request, 1);
        if (!meta) meta = x->meta;
        MetaObject *m = (MetaObject *)x->meta;
        if (PyTuple_GET_ITEM(request, 0) != s_read || x->meta != meta || m->rows != 1 || m->lead || x->slot < 0
            || x->slot >= c->next || c->row_of[x->slot] < 0) {
            Py_DECREF(rows); Py_DECREF(places);
            Py_RETURN_NONE;
        }
        ((int64_t *)PyByteArray_AS_STRING(rows))[i] = c->row_of[x->slot];
        PyObject *place = PyTuple_GET_ITEM(request, 2);
        run++;
        /* the same place has the same tuple (see site_now): one look into the dictionary for many in a row */
        if (i + 1 < n && PyTuple_GET_ITEM(PyTuple_GET_ITEM(PyList_GET_ITEM(waiting, i + 1), 2), 2) == place) continue;
        PyObject *before = PyDict_GetItemWithError(places, place);
        if (!before && PyErr_Occurred()) goto error;
        PyObject *count = PyLong_FromSsize_t(run + (before ? PyLong_AsSsize_t(before) : 0));
        if (!count || PyDict_SetItem(places, place, count)) { Py_XDECREF(count); goto error; }
        Py_DECREF(count);
        run = 0;
    }
    return Py_BuildValue("(NON)", rows, meta, places);
error:
    Py_XDECREF(rows); Py_XDECREF(places);
    return NULL;
}

static PyMethodDef core_methods[] = {
    {"asked", (PyCFunction)core_asked, METH_O, NULL}, {"shared", (PyCFunction)core_shared, METH_NOARGS, NULL},
    {"reach", (PyCFunction)core_reach, METH_O, NULL},
    {"join", (PyCFunction)(void (*)(void))core_join, METH_FASTCALL, NULL},
    {"has_tensor", (PyCFunction)core_has_tensor, METH_O, NULL},
    {"inputs", (PyCFunction)core_inputs, METH_O, NULL},
    {"take", (PyCFunction)core_take, METH_O, NULL}, {"put", (PyCFunction)core_put, METH_VARARGS, NULL},
    {"record", (PyCFunction)(void (*)(void))core_record, METH_FASTCALL, NULL},
    {"call", (PyCFunction)(void (*)(void))core_call, METH_FASTCALL, NULL},
    {"remember", (PyCFunction)(void (*)(void))core_remember, METH_FASTCALL, NULL},
    {"forget", (PyCFunction)core_forget, METH_NOARGS, NULL},
    {"resume", (PyCFunction)core_resume, METH_VARARGS, "the examples that have their answers, and these"},
    {"turn", (PyCFunction)core_turn, METH_NOARGS, "the next of them as (greenlet, answer), or None"},
    {"all_rows", (PyCFunction)core_rows, METH_O, NULL},
    {"one_row", (PyCFunction)(void (*)(void))core_row, METH_FASTCALL, NULL},
    {"parts", (PyCFunction)(void (*)(void))core_parts, METH_FASTCALL, NULL},
    {"sig", (PyCFunction)core_sig, METH_VARARGS, NULL}, {"room", (PyCFunction)core_room, METH_VARARGS, NULL},
    {"used", (PyCFunction)core_used, METH_NOARGS, NULL}, {"place", (PyCFunction)core_place, METH_VARARGS, NULL},
    {"row_of", (PyCFunction)core_row_of, METH_O, NULL}, {"plan", (PyCFunction)core_plan, METH_O, NULL}, {NULL}};
static PyMemberDef core_members[] = {
    {"lane", T_PYSSIZET, offsetof(CoreObject, lane), 0, NULL},
    {"base", T_PYSSIZET, offsetof(CoreObject, base), 0, "the lane of example 0"},
    {"pause", T_OBJECT, offsetof(CoreObject, pause), 0, "the long way to wait"},
    {"waiting", T_OBJECT, offsetof(CoreObject, waiting), 0, "list of (example, greenlet, request)"},
    {"getcurrent", T_OBJECT, offsetof(CoreObject, getcurrent), 0, NULL},
    {"current", T_OBJECT, offsetof(CoreObject, current), 0, "the greenlet of the example that runs"},
    {"hub", T_OBJECT, offsetof(CoreObject, hub), 0, "switches to the hub"},
    {"checks", T_OBJECT, offsetof(CoreObject, checks), 0, "(function, what it returns while nothing has changed, ...)"},
    {"settings", T_OBJECT, offsetof(CoreObject, settings), 0, "((dictionary, key, what it holds), ...), as for checks"},
    {"plain", T_BOOL, offsetof(CoreObject, plain), 0, "decisions take the long way"},
    {"cast", T_BOOL, offsetof(CoreObject, cast), 0, "autocast may be on"},
    {"on_node", T_OBJECT, offsetof(CoreObject, on_node), 0, "called with nothing before each new node, if set"},
    {"entries", T_OBJECT, offsetof(CoreObject, entries), READONLY, NULL},
    {"next", T_PYSSIZET, offsetof(CoreObject, next), READONLY, NULL}, {NULL}};
static PyTypeObject CoreType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "plait.batching._core.Core", .tp_basicsize = sizeof(CoreObject),
    .tp_flags = Py_TPFLAGS_DEFAULT, .tp_new = PyType_GenericNew, .tp_init = (initproc)core_init,
    .tp_dealloc = (destructor)core_dealloc, .tp_methods = core_methods, .tp_members = core_members};

static PyMethodDef module_methods[] = {
    {"use", module_use, METH_O, "use(core or None): whose lanes run in this thread"},
    {"install", module_install, METH_VARARGS,
     "install(names of functions, dispatch, whose code, place, handle, class of constants, are modes on?, what sets "
     "autocast, two words of a tensor): the long ways, and what the short ones must know"},
    {"straight", module_straight, METH_O, "straight(on): whether calls of those functions come here first"},
    {"handle", (PyCFunction)(void (*)(void))module_handle, METH_VARARGS | METH_KEYWORDS, NULL},
    {"dispatch", (PyCFunction)(void (*)(void))module_dispatch, METH_FASTCALL, NULL}, {NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "plait.batching._core", NULL, -1, module_methods};

PyMODINIT_FUNC PyInit__core(void) {
    PyObject *m = PyModule_Create(&module);
    if (!m) return NULL;
    struct { PyObject **to; const char *text; } words[] = {
        {&s_add, "add"}, {&s_sub, "sub"}, {&s_mul, "mul"}, {&s_div, "div"}, {&s_matmul, "matmul"}, {&s_neg, "neg"},
        {&s_read, "read"}, {&s_compare, "_compare"}, {&s_operate, "_operate"}, {&s_truth, "_truth"}, {&s_slow, "_slow"},
        {&s_stack, "stack"}, {&s_cat, "cat"}, {&s_switch, "switch"}, {&s_unbound, "_unbound"}, {&s_item, "_item"},
        {&s_list, "_tolist"},
        {&s_only, "_only"}, {&s_row, "row"}, {&s_ops[Py_LT], "lt"}, {&s_ops[Py_LE], "le"}, {&s_ops[Py_EQ], "eq"},
        {&s_ops[Py_NE], "ne"}, {&s_ops[Py_GT], "gt"}, {&s_ops[Py_GE], "ge"}};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (!(*words[i].to = PyUnicode_InternFromString(words[i].text))) return NULL;
    LazyType.tp_hash = PyBaseObject_Type.tp_hash;   /* values are told apart by identity */
    LazyType.tp_methods = lazy_methods;
    PyTypeObject *types[] = {&MetaType, &LazyType, &EntryType, &CoreType, &TestType, &CellType, &FastCallType};
    const char *names[] = {"MetaBase", "LazyBase", "Entry", "Core", "Test", "CellBase", "FastCall"};
    for (int i = 0; i < 7; i++) {
        if (PyType_Ready(types[i]) < 0) return NULL;
        Py_INCREF(types[i]);
        if (PyModule_AddObject(m, names[i], (PyObject *)types[i]) < 0) return NULL;
    }
    return m;
}
