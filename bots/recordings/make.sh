#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Makes the caller's recordings: 16 kHz, mono, 16 bit. They are committed; run this only to change one.
# Needs: apt-get install flite sox
set -eu
cd "$(dirname "$0")"

record() { # NAME TEXT
    flite -voice awb -t "$2" -o "$1.tmp.wav"
    sox "$1.tmp.wav" -r 16000 -c 1 -b 16 "$1.wav" silence 1 0.01 0.5% reverse silence 1 0.01 0.5% reverse gain -n -3
    rm "$1.tmp.wav"
}

# Smart-turn takes each of these for a finished turn; "goodbye" in this voice, for one, it does not.
record ask "have you got my record and is there anything free on thursday"
record hold_on "hold on a second please"
record how_far "how far are you"
record book "please book ten o'clock on thursday"
record forget "please forget about it"
record thanks "thank you for your help"
