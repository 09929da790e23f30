"""The S3 server of the tests is a real one: it asks for keys, keeps what it took, and lets one writer win."""

import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
from botocore.exceptions import ClientError

PART = b"p" * (5 << 20)


def code_of(refused: pytest.ExceptionInfo[ClientError]) -> int:
    return refused.value.response["ResponseMetadata"]["HTTPStatusCode"]


def put(server, key, body, **how):
    return server.client().put_object(Bucket=server.bucket, Key=key, Body=body, **how)


def test_who_brings_no_key_is_refused(s3_server):
    put(s3_server, "secret.txt", b"secret")
    for address in (f"/{s3_server.bucket}/secret.txt", f"/{s3_server.bucket}?list-type=2", "/"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(s3_server.endpoint_url + address, timeout=10)
        assert refused.value.code == 403


@pytest.mark.parametrize("wrong", [{"access_key": "somebody"}, {"secret": "guessed"}])
def test_who_brings_a_wrong_key_is_refused(s3_server, wrong):
    client = s3_server.client(**wrong)
    for attempt in (
        lambda: client.list_objects_v2(Bucket=s3_server.bucket),
        lambda: client.put_object(Bucket=s3_server.bucket, Key="forged", Body=b""),
    ):
        with pytest.raises(ClientError) as refused:
            attempt()
        assert code_of(refused) == 403
    assert "forged" not in s3_server.objects()


def test_a_killed_server_comes_back_with_what_was_committed(s3_server):
    put(s3_server, "kept/a file.txt", "文字".encode())
    s3_server.kill()
    s3_server.start()
    assert s3_server.objects("kept/") == {"kept/a file.txt": 6}
    assert s3_server.read("kept/a file.txt") == "文字".encode()


def test_an_upload_that_a_kill_cut_short_dangles_and_shows_no_object(s3_server):
    client, place = s3_server.client(), {"Bucket": s3_server.bucket, "Key": "cut/short.bin"}
    upload = client.create_multipart_upload(**place)["UploadId"]
    client.upload_part(**place, UploadId=upload, PartNumber=1, Body=PART)
    s3_server.kill()
    s3_server.start()
    assert s3_server.objects("cut/") == {}
    assert s3_server.multipart_uploads("cut/") == ["cut/short.bin"]
    client.abort_multipart_upload(**place, UploadId=upload)
    assert s3_server.multipart_uploads("cut/") == []


def test_of_twenty_who_create_an_object_exclusively_one_wins(s3_server):
    def create(number: int) -> int:
        try:
            put(s3_server, "race/one.txt", str(number).encode(), IfNoneMatch="*")
        except ClientError as error:
            return error.response["ResponseMetadata"]["HTTPStatusCode"]
        return number

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(create, range(20)))
    assert answers.count(412) == 19
    assert s3_server.read("race/one.txt") == str(min(answers)).encode()


def test_another_process_finds_the_server_by_its_environment(s3_server, monkeypatch):
    for name, value in s3_server.environment().items():
        monkeypatch.setenv(name, value)
    code = f"import s3fs; s3fs.S3FileSystem().pipe_file({s3_server.bucket + '/other process/文.txt'!r}, b'seen')"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert s3_server.read("other process/文.txt") == b"seen"
