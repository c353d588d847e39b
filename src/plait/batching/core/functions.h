/* Functions of PyTorch on their way to the core, while lanes run. */
/* The result of a call of a kind that was seen before, or NotImplemented. */
static PyObject *known_function(CoreObject *c, PyObject *func, PyObject *const *items, Py_ssize_t n, PyObject *kw) {
    PyObject *name = PyDict_GetItemWithError(fast_names, func), *flag = Py_None, *made = NULL;
    if (!name) {
        if (PyErr_Occurred()) PyErr_Clear();            /* a function that cannot be looked up */
        Py_RETURN_NOTIMPLEMENTED;
    }
    if (Py_TYPE(name) == &PyTuple_Type) {               /* (name, default dtype?): makes a tensor from numbers */
        made = PyObject_CallNoArgs(PyTuple_GET_ITEM(name, 1));
        if (!made) return NULL;
        flag = made; name = PyTuple_GET_ITEM(name, 0);
    }
    PyObject *res = call_again(c, name, flag, NULL, items, n, kw);
    Py_XDECREF(made);
    if (res == Py_NotImplemented && !kw && n == 1 && (name == s_stack || name == s_cat)) {
        PyObject *const join[] = {items[0], name == s_cat ? Py_True : Py_False};
        Py_DECREF(res);
        res = core_join(c, join, 2);
    }
    return res;
}
/* Whether a call would come to the lanes' own mode first: 1, 0, or -1 for an error. */
static int no_other_mode(CoreObject *c) {
    if (!c || !c->checks || !PyTuple_CheckExact(c->checks)) return 0;
    Py_ssize_t last = PyTuple_GET_SIZE(c->checks) - 1;
    PyObject *depth = PyObject_CallNoArgs(PyTuple_GET_ITEM(c->checks, last - 1));
    if (!depth) return -1;
    Py_DECREF(depth);
    if (depth != PyTuple_GET_ITEM(c->checks, last)) return 0;
    PyObject *on = PyObject_CallNoArgs(modes_on);
    if (!on) return -1;
    Py_DECREF(on);
    return on == Py_True;
}
/* dispatch(mode, func, types, args, kwargs): what PyTorch calls while lanes run */
static PyObject *module_dispatch(PyObject *m, PyObject *const *args, Py_ssize_t nargs) {
    PyObject *func = args[1], *items = nargs > 3 ? args[3] : NULL, *kw = nargs > 4 ? args[4] : NULL;
    if (kw == Py_None || (kw && PyDict_CheckExact(kw) && PyDict_GET_SIZE(kw) == 0)) kw = NULL;
    if (here && items && PyTuple_CheckExact(items) && (!kw || PyDict_CheckExact(kw))) {
        PyObject *res = known_function(here, func, &PyTuple_GET_ITEM(items, 0), PyTuple_GET_SIZE(items), kw);
        if (res != Py_NotImplemented) return res;
        Py_DECREF(res);
    }
    PyObject *empty = items ? NULL : PyTuple_New(0), *none = kw ? NULL : PyDict_New();
    PyObject *res = PyObject_CallFunctionObjArgs(slow_dispatch, func, items ? items : empty, kw ? kw : none, NULL);
    Py_XDECREF(empty); Py_XDECREF(none);
    return res;
}

/* handle(function, relevant arguments, *args, **kwargs): in place of `torch.overrides.handle_torch_function` while lanes
 * run, which takes several microseconds to come to `dispatch`; only with no other mode than the lanes' own */
static PyObject *module_handle(PyObject *m, PyObject *args, PyObject *kw) {
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    CoreObject *c = here;
    int straight = n > 2 ? no_other_mode(c) : 0;
    if (straight < 0) return NULL;
    if (straight) {
        PyObject *res = known_function(c, PyTuple_GET_ITEM(args, 0), &PyTuple_GET_ITEM(args, 2), n - 2,
                                       kw && PyDict_GET_SIZE(kw) ? kw : NULL);
        if (res != Py_NotImplemented) return res;
        Py_DECREF(res);
    }
    return PyObject_Call(slow_handle, args, kw);
}

static PyObject *keywords(PyObject *const *values, PyObject *names) {
    PyObject *kw = names && PyTuple_GET_SIZE(names) ? PyDict_New() : NULL;
    for (Py_ssize_t i = 0; kw && i < PyTuple_GET_SIZE(names); i++)
        if (PyDict_SetItem(kw, PyTuple_GET_ITEM(names, i), values[i])) Py_CLEAR(kw);
    return kw;
}
static PyObject *plain_call(PyObject *func, PyObject *const *args, Py_ssize_t n, PyObject *kw) {
    PyObject *items = PyTuple_New(n), *res = NULL;
    if (!items) return NULL;
    for (Py_ssize_t i = 0; i < n; i++) { Py_INCREF(args[i]); PyTuple_SET_ITEM(items, i, args[i]); }
    res = Py_TYPE(func)->tp_call(func, items, kw);
    Py_DECREF(items);
    return res;
}

/* What Python calls in place of a function of `torch` that is written in C, such as `torch.relu`, while lanes run: four
 * fifths of the time of such a call go by on its way through PyTorch to `dispatch`. The function itself stays the object
 * that it is (`act is torch.relu` holds); only its `vectorcall`, which PyTorch leaves empty, is set, and emptied at the
 * end. A call that the core does not know goes the way that it would have gone without. */
static PyObject *straight_call(PyObject *func, PyObject *const *args, size_t nargsf, PyObject *names) {
    Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    PyObject *res = NULL, *kw = keywords(args + n, names);
    if (!kw && PyErr_Occurred()) return NULL;
    CoreObject *c = here;
    int straight = no_other_mode(c);
    if (straight < 0) goto end;
    if (straight) {
        res = known_function(c, func, args, n, kw);
        if (res != Py_NotImplemented) goto end;
        Py_CLEAR(res);
    }
    res = plain_call(func, args, n, kw);
end:
    Py_XDECREF(kw);
    return res;
}
/* The same for the function that sets autocast: until an example has called it, no call has to ask whether it is on. */
static PyObject *autocast_call(PyObject *func, PyObject *const *args, size_t nargsf, PyObject *names) {
    Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    PyObject *kw = keywords(args + n, names);
    if (!kw && PyErr_Occurred()) return NULL;
    if (here) here->cast = 1;
    PyObject *res = plain_call(func, args, n, kw);
    Py_XDECREF(kw);
    return res;
}

static PyCFunctionObject **functions; static Py_ssize_t n_functions;   /* those of `install` that are written in C */
static int in_c(PyObject *func) {
    return PyCFunction_CheckExact(func) && (PyCFunction_GET_FLAGS(func) & ~METH_STATIC) == (METH_VARARGS | METH_KEYWORDS);
}
static int find_functions(void) {
    PyObject *func, *name; Py_ssize_t pos = 0;
    PyCFunctionObject **all = PyMem_Realloc(functions, (PyDict_GET_SIZE(fast_names) + 1) * sizeof(*all));
    if (!all) { PyErr_NoMemory(); return -1; }
    functions = all; n_functions = 0;
    while (PyDict_Next(fast_names, &pos, &func, &name))
        if (in_c(func)) functions[n_functions++] = (PyCFunctionObject *)func;
    return 0;
}

/* Python gives each greenlet a stack of its own, fresh from the system: as dear as twenty recorded calls. While lanes run
 * such blocks are kept for the next greenlet. They are what the allocator before had given, so either may free them. */
#define STACK (16 * 1024)
#define STACKS 128
static PyObjectArenaAllocator plainly;
static void *stacks[STACKS]; static int n_stacks;
static void *stack_alloc(void *ctx, size_t size) {
    return size == STACK && n_stacks ? stacks[--n_stacks] : plainly.alloc(plainly.ctx, size);
}
static void stack_free(void *ctx, void *block, size_t size) {
    if (size == STACK && n_stacks < STACKS) stacks[n_stacks++] = block; else plainly.free(plainly.ctx, block, size);
}
static PyObjectArenaAllocator keeping = {NULL, stack_alloc, stack_free};

/* straight(on): whether calls of the functions of `install` come here first, and stacks are kept */
static PyObject *module_straight(PyObject *m, PyObject *on) {
    PyObjectArenaAllocator now;
    PyObject_GetArenaAllocator(&now);
    if (on == Py_True && now.alloc != stack_alloc) { plainly = now; PyObject_SetArenaAllocator(&keeping); }
    if (on != Py_True && now.alloc == stack_alloc) PyObject_SetArenaAllocator(&plainly);
    for (Py_ssize_t i = 0; i < n_functions; i++) {
        vectorcallfunc *call = &functions[i]->vectorcall;
        if (on == Py_True ? !*call : *call == straight_call) *call = on == Py_True ? straight_call : NULL;
    }
    if (in_c(set_autocast)) ((PyCFunctionObject *)set_autocast)->vectorcall = on == Py_True ? autocast_call : NULL;
    Py_RETURN_NONE;
}
