"""Output: all of it, in order, while it is written, on the stream it was written to."""

import itertools
import time

from rexec_e2e.client import Client


def test_the_pages_train_example_prints_while_it_runs(user: Client) -> None:
    script = user.start("""
        @remote_func
        def train(epochs):
            import time
            for epoch in range(epochs):
                time.sleep(1)
                print(f"epoch {epoch}: done")
            return epochs
        attempt(train, 3)
    """)
    times = []
    for epoch in range(3):
        script.wait_for(f"epoch {epoch}: done")
        times.append(time.monotonic())
    answer = script.finish().ok()
    assert answer.returned == "3"
    assert answer.stdout == "epoch 0: done\nepoch 1: done\nepoch 2: done\n"
    assert all(0.5 < later - earlier < 2 for earlier, later in itertools.pairwise(times))


def test_standard_error_comes_out_on_the_clients_standard_error(user: Client) -> None:
    answer = user.run("""
        @remote_func
        def f():
            import logging, sys, warnings
            print("out")
            print("err", file=sys.stderr)
            logging.warning("logged")
        f()
    """)
    assert answer.ok().stdout == "out\n"
    assert answer.stderr.splitlines() == ["err", "WARNING:root:logged"]


def test_what_subprocesses_and_c_code_write_is_streamed_too(user: Client) -> None:
    answer = user.run("""
        @remote_func
        def f():
            import ctypes, os, subprocess, sys
            print("python")
            sys.stdout.flush()
            subprocess.run(["sh", "-c", "echo subprocess; echo wrong >&2"], check=True)
            os.write(1, b"descriptor\\n")
            libc = ctypes.CDLL(None)
            libc.puts(b"c library")
            libc.fflush(None)
        f()
    """)
    assert answer.ok().stdout == "python\nsubprocess\ndescriptor\nc library\n"
    assert answer.stderr == "wrong\n"


def test_what_c_code_still_holds_at_the_end_comes_out(user: Client) -> None:
    answer = user.run("""
        @remote_func
        def f():
            import ctypes
            ctypes.CDLL(None).puts(b"not flushed")
        f()
    """)
    assert answer.ok().stdout == "not flushed\n"


def test_wire_f17_standard_output_is_a_real_text_stream(user: Client) -> None:
    answer = user.run("""
        @remote_func
        def f():
            import subprocess, sys
            sys.stdout.write("text ")
            sys.stdout.flush()
            sys.stdout.buffer.write(b"bytes ")
            sys.stdout.buffer.flush()
            subprocess.run(["printf", "child"], stdout=sys.stdout, check=True)
            sys.stdout.reconfigure(line_buffering=True)
            return [sys.stdout.encoding.lower(), sys.stdout.isatty(), sys.stdout.fileno(), sys.stderr.fileno()]
        show(f())
    """)
    assert answer.ok().stdout == "text bytes child"
    assert answer.one == ["utf-8", False, 1, 2]


def test_wire_f17_bytes_to_the_text_stream_are_an_error_there_and_not_at_the_client(user: Client) -> None:
    answer = user.run("""
        @remote_func
        def f():
            import sys
            sys.stdout.write(b"bytes")
        attempt(f)
    """)
    raised = answer.ok().raised
    assert raised.kind == "RuntimeError"
    assert "TypeError" in raised.message


def test_a_progress_bar_moves_at_once(user: Client) -> None:
    script = user.start("""
        sys.stdout.reconfigure(write_through=True)
        @remote_func
        def f():
            import time
            print("start")
            print(".", end="")
            time.sleep(1)
            print("\\nend")
        begin = time.monotonic()
        class Watch:
            def write(self, text):
                if "." in text:
                    show(time.monotonic() - begin)
                return sys.__stdout__.write(text)
            def flush(self):
                sys.__stdout__.flush()
        sys.stdout = Watch()
        f()
        show(time.monotonic() - begin)
    """)
    dot, end = script.finish().ok().shown
    assert isinstance(dot, float)
    assert isinstance(end, float)
    assert end - dot > 0.8


def test_characters_cut_in_pieces_and_bytes_that_are_none_arrive(user: Client) -> None:
    answer = user.run("""
        @remote_func
        def f():
            import os, time
            for byte in "é€𝄞".encode():
                os.write(1, bytes([byte]))
                time.sleep(0.01)
            os.write(1, b"\\xff|")
        f()
    """)
    assert answer.ok().stdout == "é€𝄞\ufffd|"


def test_wire_f02_a_reader_that_sleeps_stops_the_writer_and_loses_nothing(user: Client) -> None:
    answer = user.run("""
        @remote_func
        def f(n):
            for number in range(n):
                print(number, "x" * 1000)
            return n
        seen = []
        class Slow:
            def write(self, text):
                if not seen:
                    time.sleep(3)
                seen.append(text)
            def flush(self):
                pass
        sys.stdout, real = Slow(), sys.stdout
        returned = f(20_000)
        sys.stdout = real
        lines = "".join(seen).splitlines()
        show([returned, len(lines), lines == [f"{number} " + "x" * 1000 for number in range(20_000)]])
    """)
    assert answer.ok().one == [20_000, 20_000, True]


def test_threads_print_and_a_call_ends_after_its_last_thread(user: Client) -> None:
    answer = user.run("""
        @remote_func
        def f():
            import threading, time
            def late():
                time.sleep(0.5)
                print("late")
            threading.Thread(target=late).start()
            print("early")
            return 1
        attempt(f)
    """)
    assert answer.ok().stdout == "early\nlate\n"
    assert answer.returned == "1"


def test_wire_f15_pools_of_processes_work(user: Client) -> None:
    answer = user.run("""
        @remote_func
        def f():
            import concurrent.futures, multiprocessing
            with multiprocessing.Pool(2) as pool:
                squares = pool.map(abs, [-1, -2])
            with concurrent.futures.ProcessPoolExecutor(2) as pool:
                return squares, list(pool.map(abs, [-3, -4]))
        attempt(f)
    """)
    assert answer.ok().returned == "([1, 2], [3, 4])"


def test_asyncio_runs_in_a_call(user: Client) -> None:
    answer = user.run("""
        @remote_func
        def f():
            import asyncio
            async def add(x):
                await asyncio.sleep(0)
                return x + 1
            return asyncio.run(add(1))
        attempt(f)
    """)
    assert answer.ok().returned == "2"


def test_input_says_that_there_is_none(user: Client) -> None:
    answer = user.run("""
        @remote_func
        def f():
            return input("name? ")
        attempt(f)
    """)
    assert "EOFError" in answer.ok().raised.message


def test_a_large_write_arrives_whole(user: Client) -> None:
    answer = user.run("""
        @remote_func
        def f():
            print("y" * 20_000_000)
        f()
    """)
    assert len(answer.ok().stdout) == 20_000_001
