"""A CURVE certificate for tests, and what is none; these keys protect nothing."""

PUBLIC = "6<spb?F1YI0nbQ^@SVTUOtPinTJx=2Vg5%j&>z6i"
SECRET = "x=$-6}=F1l&1LkAh%i=9?Xy=o-N3+y&O&YyL>XTE"
OTHER_PUBLIC = "s$#}2A(})/.]^*^k?5J%tFzM15l/6x1k.uW48}aH"
TEXT = f"""\
#  ZeroMQ CURVE **Secret** Certificate
#  DO NOT DISTRIBUTE

metadata
    name = "flux-cert-generator"
    keygen.hostname = "flux-sample-0"
curve
    public-key = "{PUBLIC}"
    secret-key = "{SECRET}"
"""


def curve(public: str = PUBLIC, secret: str = SECRET) -> str:
    """A certificate without metadata."""
    return f'curve\n    public-key = "{public}"\n    secret-key = "{secret}"\n'


BAD = {
    # text: what is said of it
    "certificate": "line 1 is neither metadata, curve nor",
    " curve\n": "line 1 is neither",
    "\n# a comment\n": "there is no public-key below curve",
    "metadata\n": "there is no public-key below curve",
    f'curve\n    public-key = "{PUBLIC}"\n': "there is no secret-key below curve",
    f'curve\n    secret-key = "{SECRET}"\n': "there is no public-key below curve",
    f'public-key = "{PUBLIC}"\n': "line 1 is neither",
    f'    public-key = "{PUBLIC}"\n': "line 1 is neither",
    f'curve\npublic-key = "{PUBLIC}"\n': "line 2 is neither",
    f"curve\n    secret-key = {SECRET}\n": "line 2 is neither",
    f'curve\n    public-key: "{PUBLIC}"\n': "line 2 is neither",
    f'keys\n    public-key = "{PUBLIC}"\n': "line 1 is neither",
    curve(PUBLIC[:-1]): "public-key has 39 characters, and a key 40",
    curve(secret=SECRET + "a"): "secret-key has 41 characters, and a key 40",
    curve(secret=""): "secret-key has 0 characters",
    curve(secret=SECRET[:-1] + " "): "secret-key has a character that is not one of Z85",
    curve(secret=SECRET[:-1] + "~"): "line 3 is neither",
    curve(secret=SECRET[:-1] + "\u00e9"): "line 3 is neither",
    curve(secret="#" * 40): "secret-key is no Z85 number of 32 bytes",
    curve(OTHER_PUBLIC): "the two keys are no pair",
    curve(SECRET, PUBLIC): "the two keys are no pair",
    curve() + f'    secret-key = "{SECRET}"\n': "line 4 repeats an entry",
    curve() + f'    private-key = "{SECRET}"\n': "an entry that is neither public-key nor secret-key",
    f'metadata\n    a = "{"x" * 250}"\n' + curve(): "line 2 is longer than 254 bytes",
    "-----BEGIN CERTIFICATE-----\nMIIC\n-----END CERTIFICATE-----\n": "line 1 begins a PEM certificate",
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n": "line 1 begins a PEM certificate",
}
