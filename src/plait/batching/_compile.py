def compile_program(p):
    return None
