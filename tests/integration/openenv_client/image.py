"""OpenEnv's own client starts our image by itself: `python image.py TAG` prints what it heard, as JSON."""

import asyncio
import json
import sys

from play import EchoClient, Say


async def main(tag):
    client = await EchoClient.from_docker_image(tag)
    try:
        await client.reset()
        heard = await client.step(Say(message="hello"))
        print(json.dumps({"echoed_message": heard.observation.echoed_message, "reward": heard.reward}))
    finally:
        await client.close()


asyncio.run(main(sys.argv[1]))
